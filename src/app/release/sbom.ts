/**
 * The bill of materials of a release: every package in it, from the lock file, in the format of CycloneDX.
 */
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

export function bom(version: string, madeAt: string, packages: readonly ReleasedPackage[]): object {
  const components = packages.map((one) => ({
    type: 'library',
    'bom-ref': `pkg:npm/${one.name.replace('@', '%40')}@${one.version}`,
    name: one.name,
    version: one.version,
    purl: `pkg:npm/${one.name.replace('@', '%40')}@${one.version}`,
    ...(one.license && { licenses: [{ license: { name: one.license } }] }),
    ...(one.integrity && { hashes: [{ alg: 'SHA-512', content: hexOf(one.integrity) }] }),
  }))
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
