// Light and dark: the button at the top right says what it changes to.

export function setTheme(theme) {
  const button = document.getElementById("theme");
  document.documentElement.dataset.theme = theme;
  button.textContent = theme === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
  dispatchEvent(new CustomEvent("themechange"));
}
