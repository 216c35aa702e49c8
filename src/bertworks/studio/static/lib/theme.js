// Light and dark: the button at the top right says what it changes to.

const system = matchMedia("(prefers-color-scheme: dark)");

function setTheme(theme) {
  const button = document.getElementById("theme");
  document.documentElement.dataset.theme = theme;
  button.textContent = theme === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
  dispatchEvent(new CustomEvent("themechange"));
}

/** As the system has it, until the button says otherwise; `store` (as localStorage) remembers that for the next time. */
export function startTheme(store = null) {
  let chosen = store?.getItem("theme") ?? null;
  const follow = () => setTheme(chosen ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", follow);
  document.getElementById("theme").addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    store?.setItem("theme", chosen);
    follow();
  });
  follow();
}
