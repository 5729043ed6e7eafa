/**
 * Removes the paths of the image's files from a program of the agent's kit. The loader, the C library and
 * Node look for settings in /etc, /usr and /lib: root inside can write those files, and some of them name a
 * library to load (ld.so.preload, openssl.cnf, nsswitch.conf, gconv). Each such path is redirected to /sys,
 * in the program's own bytes: in every sandbox that is read-only and has no such names. Without its file each
 * program uses its built-in defaults.
 */

/**
 * Matches whole strings: settings, data of locales and time zones, sockets of helpers, and the folders of
 * libraries.
 */
const foreignPath = new RegExp(
  [
    '/etc/[!-~]+',
    '/usr/(?:share|lib\\w*)/[!-~]*',
    '/usr/local/[!-9;-~]+',
    '/usr/share|/usr/lib\\w*',
    '/lib\\w*/(?:[\\w-]+/)?',
    '/var/(?:run|log|db|cache|lib)/[!-~]+',
    '/[\\w-]{3,}/[!-~]+/(?:openssl-modules|ossl-modules|engines-[\\w.]+)',
  ]
    .map((path) => `(?<=\\0)${path}(?=\\0)`)
    .join('|'),
  'g',
)

/** Changes the bytes in place. */
export function replaceForeignPaths(program: Buffer): void {
  for (const { 0: path, index } of program.toString('latin1').matchAll(foreignPath)) {
    program.write(replacedStart(path), index, 'latin1')
  }
}

export const foreignPathsIn = (program: Buffer): string[] =>
  [...program.toString('latin1').matchAll(foreignPath)]
    .map(([path]) => path)
    .filter((path) => !path.startsWith('/sys/'))

/**
 * Changes only the first folder of the path, to one of the same length. Linkers store a text that is the end
 * of another only once: "pem" may be a part of "/etc/ssl/cert.pem".
 */
function replacedStart(path: string): string {
  const folder = path.slice(1, path.indexOf('/', 1))
  return `/sys${'/'.repeat(folder.length - 3)}`
}
