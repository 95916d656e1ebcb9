// Keeps the page up to date by server-sent events, and shows times as people say them.

const main = document.getElementById("main")
const state = document.getElementById("live")
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]

function said(seconds) {
  const size = Math.abs(seconds)
  const [length, unit] = UNITS.find(([length]) => size >= length) ?? [1, "s"]
  const text = `${Math.floor(size / length)} ${unit}`
  return seconds >= 0 ? `${text} ago` : `in ${text}`
}

function showTimes() {
  for (const each of document.querySelectorAll("time[datetime]")) {
    each.title ||= each.textContent
    each.textContent = said((Date.now() - Date.parse(each.dateTime)) / 1000)
  }
}

// The server has escaped all that comes from outside, and the page allows no script but this one.
function show(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html")
  const focused = document.activeElement
  const typing = main.contains(focused) && focused.matches("input, select")
  const link = main.contains(focused) ? focused.getAttribute("href") : null
  if (typing) return false
  main.replaceChildren(...parsed.body.childNodes)
  showTimes()
  if (link) {
    const again = [...main.querySelectorAll("a")].find(each => each.getAttribute("href") === link)
    again?.focus({preventScroll: true})
  }
  return true
}

const source = new EventSource(main.dataset.live)
source.addEventListener("part", event => {
  show(JSON.parse(event.data))
  state.textContent = "live"
})
source.addEventListener("gone", () => location.reload())
source.addEventListener("error", () => { state.textContent = "not connected" })
addEventListener("pagehide", () => source.close())
showTimes()
setInterval(showTimes, 1000)
