"use strict";
// Joins the passkey buttons of a page to allauth's forms, and says so where the browser or the key refuses.

document.addEventListener("allauth.error", (event) => {
  event.preventDefault(); // it is told below, and is no error of the page
  for (const trouble of document.querySelectorAll("[data-passkey-trouble]")) trouble.hidden = false;
});

for (const told of document.querySelectorAll("script[data-allauth-onload]")) {
  const form = told.dataset.allauthOnload.split(".").pop();
  window.allauth.webauthn.forms[form](JSON.parse(told.textContent));
}
