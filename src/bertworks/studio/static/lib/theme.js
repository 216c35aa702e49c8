// Light and dark: the button at the top right says what it changes to.

const system = matchMedia("(prefers-color-scheme: dark)");

function setTheme(theme) {
  const button = document.getElementById("theme");
  document.documentElement.dataset.theme = theme;
  button.textContent = theme === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
  dispatchEvent(new CustomEvent("themechange"));
}

/** A browser may forbid a page to remember anything. */
function allowed(use) {
  try {
    return use();
  } catch {
    return null;
  }
}

/** As the system has it, until the button says otherwise; that is remembered for the next time where `remember` says so. */
export function startTheme({ remember = false } = {}) {
  let chosen = remember ? allowed(() => localStorage.getItem("theme")) : null;
  const follow = () => setTheme(chosen ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", follow);
  document.getElementById("theme").addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    if (remember) allowed(() => localStorage.setItem("theme", chosen));
    follow();
  });
  follow();
}
