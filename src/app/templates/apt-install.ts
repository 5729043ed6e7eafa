/** The command of a template's step that installs Debian packages and leaves nothing else behind. */
export function aptInstall(packages: readonly string[]): string {
  return [
    'apt-get update -qq',
    `DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ${packages.join(' ')}`,
    'rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*',
  ].join(' && ')
}
