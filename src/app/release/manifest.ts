/** What a release says of itself: `release.json` in its folder. */
export type ReleaseManifest = {
  version: string
  commit: string
  architecture: string
  runsc: { version: string; sha256: string }
  base: { hash: string; sha256: string }
}

export const manifestFile = 'release.json'
