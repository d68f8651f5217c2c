// Pages work without this file. It stops updates of a page that nobody sees, and says
// when the console does not answer, so that nobody takes old figures for new ones.
(function () {
  "use strict";
  function lost(away) {
    var box = document.getElementById("lost");
    if (!box || box.hidden === !away) return;
    if (away) document.getElementById("lost-at").textContent = new Date().toISOString().slice(11, 19) + " UTC";
    box.hidden = !away;
  }
  document.addEventListener("htmx:before:request", function (e) {
    if (document.hidden) e.preventDefault();
  });
  document.addEventListener("htmx:error", function () { lost(true); });
  document.addEventListener("htmx:response:error", function () { lost(true); });
  document.addEventListener("htmx:after:swap", function () { lost(false); });
})();
