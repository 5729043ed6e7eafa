/** Who changed what, when, from where, and with which answer. No field holds a secret. */
export type AuditLine = {
  lineID: string
  at: number
  /** Null: the change concerns no single team. */
  teamID: string | null
  personID: string | null
  /** The person's e-mail address or name, for people to read; null: a service, or the admin token. */
  person: string | null
  credential: 'api key' | 'access token' | 'session' | 'admin token' | 'none'
  /** The ID of the key, token or session, never what opens it. */
  credentialID: string | null
  /** The client's address. */
  address: string
  /** Such as `sandbox.create`. */
  action: string
  /** The object's ID or name; null: not known yet, or none. */
  object: string | null
  requestID: string
  /** The status of the answer. Null: the change was made, and the server ended before it answered. */
  status: number | null
  /** When the status was written here. */
  finishedAt: number | null
}

/**
 * A change under way. Whoever writes its first row writes its line, too, in the same transaction; what has written no row
 * gets its line after the answer.
 */
export type PendingChange = {
  line: AuditLine
  /** `claimed`: a transaction that is not committed yet has the line. `closed`: the answer is written. */
  state: 'open' | 'claimed' | 'written' | 'closed'
}
