/**
 * xterm.js writes its measures into <style> elements and colours into style attributes, which the page's security policy
 * rejects. While a terminal is open, the document makes stand-ins for the former, whose text goes into style sheets that
 * scripts may adopt, and elements that take the latter from scripts. (Its option for another document reaches only a part
 * of what it makes.)
 */
export function styleByScript(): () => void {
  const sheets: CSSStyleSheet[] = []
  const create = Document.prototype.createElement
  const standIn = (): HTMLElement => {
    const sheet = new CSSStyleSheet()
    sheets.push(sheet)
    document.adoptedStyleSheets.push(sheet)
    const element = create.call(document, 'div')
    element.hidden = true
    Object.defineProperty(element, 'textContent', { set: (text: string) => sheet.replaceSync(text) })
    return element
  }
  document.createElement = ((tag: string, options?: ElementCreationOptions) => {
    if (tag === 'style') return standIn()
    const element = create.call(document, tag, options)
    element.setAttribute = setAttribute
    return element
  }) as Document['createElement']
  return () => {
    Reflect.deleteProperty(document, 'createElement')
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.includes(sheet))
  }
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === 'style') this.style.cssText = value
  else Element.prototype.setAttribute.call(this, name, value)
}
