/**
 * Takes the paths of the image's files out of a program of the agent's kit. The loader, the C library and Node look for
 * settings in /etc, /usr and /lib: whoever is root inside writes those files, and some of them name a library to load
 * (ld.so.preload, openssl.cnf, nsswitch.conf, gconv). Each such path is replaced, in the program's own bytes and at the
 * same length, by a path in the kit, which is read-only and has no file of that name. Without the file each of them takes
 * what it was built with.
 */

/** Whole strings: settings, data of locales and time zones, sockets of helpers, and the folders that libraries come from. */
const foreignPath = new RegExp(
  [
    '/etc/[!-~]+',
    '/usr/(?:share|lib\\w*)/[!-~]*',
    '/usr/local/[!-9;-~]+',
    '/usr/share|/usr/lib\\w*',
    '/lib\\w*/(?:[\\w-]+/)?',
    '/var/(?:run|log|db|cache|lib)/[!-~]+',
    '/[!-~]+/(?:openssl-modules|ossl-modules|engines-[\\w.]+)',
  ]
    .map((path) => `(?<=\\0)${path}(?=\\0)`)
    .join('|'),
  'g',
)

/** `mountedAt` is where the sandbox sees the kit. The bytes are changed in place. */
export function replaceForeignPaths(program: Buffer, mountedAt: string): void {
  for (const { 0: path, index } of program.toString('latin1').matchAll(foreignPath)) {
    program.write(replacement(path, mountedAt), index, 'latin1')
  }
}

/** For programs whose paths must be gone: how many are left. */
export const foreignPathsIn = (program: Buffer, mountedAt: string): string[] =>
  [...program.toString('latin1').matchAll(foreignPath)]
    .map(([path]) => path)
    .filter((path) => !path.startsWith(mountedAt))

function replacement(path: string, mountedAt: string): string {
  // Only folders of libraries are that short. Of a path in it the loader then sees "/" alone, which is no library.
  if (path.length < mountedAt.length) return `/${'\0'.repeat(path.length - 1)}`
  const end = path.endsWith('/') ? '/' : ''
  const name = path.length - mountedAt.length - 1
  if (name <= 0) return `${mountedAt}/`.slice(0, path.length)
  return `${mountedAt}/${'x'.repeat(name - end.length)}${end}`
}
