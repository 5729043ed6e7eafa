const certificate = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g

/** The certificates in a PEM text, each as a PEM text of its own. What stands between them is left out. */
export function pemCertificates(text: string): string[] {
  return text.match(certificate) ?? []
}
