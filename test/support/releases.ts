/**
 * The releases of the clients that tests speak with. The older ones create and connect by other paths, with other
 * defaults. Where those lead to memory that is kept, the wire differs in what depends on the isolation, and they run on
 * each. Elsewhere one isolation proves that they work: the control plane answers them before any is concerned.
 */
import * as current from 'e2b'
import * as older from 'e2b-2.45'
import type { Isolation } from './warren.ts'

export type Wire = 'differs' | 'same'

const withOlder = (isolation: Isolation, wire: Wire) => wire === 'differs' || isolation === 'container'

export type JavaScriptRelease = [version: string, client: typeof current, packageName: string]

export function javaScriptReleases(isolation: Isolation, wire: Wire): JavaScriptRelease[] {
  const releases: JavaScriptRelease[] = [['2.51', current, 'e2b']]
  if (withOlder(isolation, wire)) releases.push(['2.45', older as unknown as typeof current, 'e2b-2.45'])
  return releases
}

export type PythonRelease = [version: string, age: 'newest' | 'older']

export function pythonReleases(isolation: Isolation, wire: Wire): PythonRelease[] {
  const releases: PythonRelease[] = [['2.63.0', 'newest']]
  if (withOlder(isolation, wire)) releases.push(['2.45.1', 'older'])
  return releases
}
