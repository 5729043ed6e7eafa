// A button on each block of code, which copies the block.
const copiedMs = 1500

async function copy(text) {
  // Pages of another machine without TLS have no clipboard.
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

for (const block of document.querySelectorAll('main pre')) {
  const frame = document.createElement('div')
  const button = document.createElement('button')
  frame.className = 'code'
  button.type = 'button'
  button.textContent = 'Copy'
  button.addEventListener('click', async () => {
    await copy(block.textContent.trimEnd())
    button.textContent = 'Copied'
    setTimeout(() => {
      button.textContent = 'Copy'
    }, copiedMs)
  })
  block.replaceWith(frame)
  frame.append(block, button)
}
