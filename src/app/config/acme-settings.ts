/** Settings of the certificate that Warren gets itself. */
import * as kind from './settings.ts'
import { setting } from './settings.ts'

export const acmeSchema = {
  acme: setting(
    'WARREN_ACME',
    '',
    "Get and renew a certificate for WARREN_DOMAIN: staging or production of Let's Encrypt, or the URL of another ACME directory.",
    kind.optional(kind.acmeDirectory),
  ),
  acmeEmail: setting(
    'WARREN_ACME_EMAIL',
    '',
    'E-mail address of the ACME account; unset: none.',
    kind.optional(kind.email),
  ),
  acmeDns: setting(
    'WARREN_ACME_DNS',
    '',
    'Program, with arguments, that sets TXT records: run with add or remove, NAME and VALUE. Unset: proof by HTTP, without a wildcard.',
    kind.optional(kind.program),
  ),
  acmeHttpPort: setting(
    'WARREN_ACME_HTTP_PORT',
    '80',
    'Port that answers proofs by HTTP and leads browsers to https; it must be reachable as port 80.',
    kind.wholeNumber(1, 65535),
  ),
}
