/**
 * xterm.js writes its measures into <style> elements, which the page's security policy rejects. It gets a document that
 * makes stand-ins for them, whose text goes into style sheets that scripts may adopt.
 */
export function documentWithoutStyles(): { document: Document; release: () => void } {
  const sheets: CSSStyleSheet[] = []
  const standIn = (): HTMLElement => {
    const sheet = new CSSStyleSheet()
    sheets.push(sheet)
    document.adoptedStyleSheets.push(sheet)
    const element = document.createElement('div')
    element.hidden = true
    Object.defineProperty(element, 'textContent', { set: (text: string) => sheet.replaceSync(text) })
    return element
  }
  const proxy = new Proxy(document, {
    get(target, name) {
      if (name === 'createElement') {
        return (tag: string) => (tag.toLowerCase() === 'style' ? standIn() : target.createElement(tag))
      }
      const value = Reflect.get(target, name) as unknown
      return typeof value === 'function' ? value.bind(target) : value
    },
    set: (target, name, value) => Reflect.set(target, name, value),
  })
  return {
    document: proxy,
    release: () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.includes(sheet))
    },
  }
}
