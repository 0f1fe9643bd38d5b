// Puts a campaign into another site by one tag:
//   <script src="https://collect.example.org/embed.js" data-campaign="birds-2026" data-invitation="..."></script>
// The questions stand in a frame of the collecting site: the site around it can neither read nor choose the answers.
(() => {
  const tag = document.currentScript, { campaign, invitation, height } = tag.dataset;
  const frame = document.createElement("iframe");
  frame.src = `${new URL(tag.src).origin}/c/${encodeURIComponent(campaign ?? "")}${invitation ? `#${encodeURIComponent(invitation)}` : ""}`;
  frame.title = "Questions; answers are randomized before they are sent";
  frame.referrerPolicy = "no-referrer";
  frame.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms");
  Object.assign(frame.style, { width: "100%", height: `${Number(height) || 640}px`, border: "0" });
  tag.after(frame);
})();
