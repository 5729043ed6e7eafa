/**
 * The bill of materials of a release: packages of npm from the lock file, gVisor and its modules, packages of Debian.
 */
import type { GoModule } from './go-modules.ts'
import type { ReleaseManifest } from './manifest.ts'
import type { DebianPackage } from './system-root.ts'

type LockedPackage = {
  version?: string
  integrity?: string
  license?: string
  dev?: boolean
  devOptional?: boolean
}

export type LockFile = { packages: Record<string, LockedPackage> }

export type ReleasedPackage = Required<Pick<LockedPackage, 'version'>> &
  Pick<LockedPackage, 'integrity' | 'license'> & {
    /** The path below the project. */
    path: string
    name: string
  }

/** The packages that the server needs at run time; `isThere` excludes those for other machines. */
export function releasedPackages(lock: LockFile, isThere: (path: string) => boolean): ReleasedPackage[] {
  return Object.entries(lock.packages).flatMap(
    ([path, { version, integrity, license, dev, devOptional }]) => {
      if (path === '' || dev || devOptional || version === undefined || !isThere(path)) return []
      const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
      return [{ path, name, version, ...(integrity && { integrity }), ...(license && { license }) }]
    },
  )
}

type Component = { 'bom-ref': string; [field: string]: unknown }

const component = (purl: string, name: string, version: string, more: object): Component => ({
  type: 'library',
  'bom-ref': purl,
  name,
  version,
  purl,
  ...more,
})

export const npmComponent = ({ name, version, license, integrity }: ReleasedPackage): Component =>
  component(`pkg:npm/${name.replace('@', '%40')}@${version}`, name, version, {
    ...(license && { licenses: [{ license: { name: license } }] }),
    ...(integrity && { hashes: [{ alg: 'SHA-512', content: hexOf(integrity) }] }),
  })

/** runsc and the modules that it was built of. */
export function gvisorComponents(
  { version, sha256 }: ReleaseManifest['runsc'],
  modules: readonly GoModule[],
): Component[] {
  const gvisor = component(`pkg:golang/gvisor.dev/gvisor@${version}`, 'gvisor.dev/gvisor', version, {
    licenses: [{ license: { id: 'Apache-2.0' } }],
    hashes: [{ alg: 'SHA-256', content: sha256 }],
  })
  const parts = modules.map(({ path, version, sum }) =>
    component(`pkg:golang/${path}@${version}`, path, version, {
      ...(sum && { properties: [{ name: 'go:sum', value: sum }] }),
    }),
  )
  return [gvisor, ...parts]
}

/** The copyright file of each package is in its root, below /usr/share/doc. */
export const debianComponent = ({ name, version, architecture, source }: DebianPackage): Component =>
  component(`pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`, name, version, {
    properties: [{ name: 'debian:source', value: source }],
  })

/** In the format of CycloneDX; what is given twice is listed once. */
export function bom(version: string, madeAt: string, components: readonly Component[]): object {
  const unique = [...new Map(components.map((one) => [one['bom-ref'], one])).values()]
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: {
      timestamp: madeAt,
      component: { type: 'application', name: 'warren', version, 'bom-ref': `warren@${version}` },
    },
    components: unique.sort((a, b) => (a['bom-ref'] < b['bom-ref'] ? -1 : 1)),
  }
}

const hexOf = (integrity: string) => Buffer.from(integrity.replace(/^sha512-/, ''), 'base64').toString('hex')
