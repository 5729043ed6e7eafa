/**
 * The operator's additional certificate authorities: checked at the start, so that no sandbox fails because
 * of them.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { AppError, errorText, isAppError } from '../../lib/app-error.ts'
import { pemCertificates } from '../../lib/pem.ts'
import { hostAuthorities } from './host-authorities.ts'

/** Every sandbox gets the whole file. */
const largestFile = 4 * 1024 * 1024

/**
 * Returns only the certificates, without other text of the file. With `host` they are those that this machine
 * trusts beyond the usual ones; undefined if there are none.
 */
export function readExtraCA(setting: string): string | undefined {
  if (setting !== 'host') return readFile(setting)
  const found = hostAuthorities()
  return found.length === 0 ? undefined : found.join('')
}

/** Downloads of the set-up and other requests of this process trust these authorities from now on. */
export function trustInThisProcess(certificates: string): void {
  setDefaultCACertificates([...getCACertificates('default'), ...pemCertificates(certificates)])
}

function readFile(path: string): string {
  const refuse = (why: string, cause?: unknown) =>
    new AppError(
      'invalid_argument',
      `WARREN_EXTRA_CA is '${path}', ${why}. It must be a PEM file with the certificates of authorities.`,
      { cause },
    )
  let text: string
  try {
    const found = statSync(path)
    // A pipe would stop the start, and a device may have no end.
    if (!found.isFile()) throw refuse('which is no file')
    if (found.size > largestFile) throw refuse('which is larger than 4 MiB')
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw isAppError(error) ? error : refuse(`which cannot be read: ${errorText(error)}`, error)
  }
  const certificates = pemCertificates(text).map((pem, index) => {
    const which = `whose certificate number ${index + 1}`
    try {
      const certificate = new X509Certificate(pem)
      if (certificate.ca) return certificate
    } catch (error) {
      throw refuse(`${which} cannot be read: ${errorText(error)}`, error)
    }
    throw refuse(`${which} is not that of an authority`)
  })
  if (certificates.length === 0) throw refuse('which holds no certificate')
  return certificates.join('')
}
