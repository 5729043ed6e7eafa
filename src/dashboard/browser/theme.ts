/** Light or dark: as the system says, unless the reader chose. The choice is no secret and is kept between visits. */
import { Shared } from './store.ts'

export type Theme = 'system' | 'light' | 'dark'
const storageKey = 'warren.theme'

const stored = (): Theme => {
  const value = localStorage.getItem(storageKey)
  return value === 'light' || value === 'dark' ? value : 'system'
}

export const theme = new Shared<Theme>('system')

const prefersDark = () => matchMedia('(prefers-color-scheme: dark)').matches

/** The one that is shown. */
export const shownTheme = (): 'light' | 'dark' => {
  const chosen = theme.get()
  if (chosen !== 'system') return chosen
  return prefersDark() ? 'dark' : 'light'
}

export function startTheme(): void {
  theme.set(stored())
  apply()
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    apply()
    theme.set(theme.get())
  })
}

export function chooseTheme(chosen: Theme): void {
  if (chosen === 'system') localStorage.removeItem(storageKey)
  else localStorage.setItem(storageKey, chosen)
  theme.set(chosen)
  apply()
}

function apply(): void {
  document.documentElement.dataset.theme = shownTheme()
}
