const certificate = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g

/** The certificates of a PEM text, each as a separate PEM text. Text between them is left out. */
export function pemCertificates(text: string): string[] {
  return text.match(certificate) ?? []
}
