/** The identity that the control plane gave the agent through /init: who may call it, and as whom it acts. */
import { AppError } from '../lib/app-error.ts'
import { type Account, Accounts } from './accounts.ts'

export type InitRequest = {
  envVars?: Record<string, string>
  accessToken?: string
  /** False: only changes of the identity require the token. */
  secure?: boolean
  defaultUser?: string
  defaultWorkdir?: string
  /** Certificates of authorities that programs should trust, in PEM form. */
  caBundle?: string
  /** False if the sandbox is booted before anybody owns it. */
  hasOwner?: boolean
}

export class Identity {
  readonly accounts: Accounts
  envVars: Record<string, string> = {}
  /** Variables that lead programs to the trusted authorities; `envVars` override them. */
  trustVars: Record<string, string> = {}
  secure = true
  /** False while the sandbox waits for its owner. */
  hasOwner = false
  defaultUser = 'root'
  defaultWorkdir = ''
  // Stored only in this process's memory: never in an environment, an argument or a file.
  #accessToken = ''

  constructor(accounts = new Accounts()) {
    this.accounts = accounts
  }

  /** A copy that acts as the same users, for an agent that only this process reaches. */
  withoutToken(): Identity {
    const { defaultUser, defaultWorkdir } = this
    return Object.assign(new Identity(this.accounts), { defaultUser, defaultWorkdir })
  }

  /** True if callers must show the token. */
  get wantsToken(): boolean {
    return this.secure && this.hasToken
  }

  get hasToken(): boolean {
    return this.#accessToken !== ''
  }

  tokenMatches(given: string | undefined): boolean {
    return given !== undefined && this.hasToken && sameText(given, this.#accessToken)
  }

  /** The signature that a URL must contain; undefined while no token is set. */
  signatureOf(path: string, operation: 'read' | 'write', username: string, expiration: string | undefined) {
    // Loaded here because few sandboxes ever need it, and it is large.
    const { createHash } = process.getBuiltinModule('node:crypto')
    const parts = [path, operation, username, this.#accessToken]
    if (expiration !== undefined) parts.push(expiration)
    return `v1_${createHash('sha256').update(parts.join(':')).digest('base64').replace(/=+$/, '')}`
  }

  /** Makes something that only this sandbox has from its token. */
  derive<T>(make: (token: string) => T): T {
    return make(this.#accessToken)
  }

  apply(request: InitRequest): void {
    this.hasOwner = request.hasOwner ?? true
    if (request.envVars) this.envVars = { ...request.envVars }
    if (request.accessToken !== undefined) this.#accessToken = request.accessToken
    if (request.secure !== undefined) this.secure = request.secure
    if (request.defaultUser) this.defaultUser = request.defaultUser
    if (request.defaultWorkdir !== undefined) this.defaultWorkdir = request.defaultWorkdir
  }

  /** The account to act as: the named one, or else the default. Undefined if there is no such user. */
  account(username: string | undefined): Account | undefined {
    return this.accounts.find(username || this.defaultUser)
  }

  /** The account that an RPC requests through `Authorization: Basic base64("<user>:")`. */
  accountOf(authorization: string | undefined): Account {
    const username = usernameIn(authorization)
    const account = this.account(username)
    if (!account) {
      throw new AppError('unauthenticated', `invalid username: '${username || this.defaultUser}'`)
    }
    return account
  }
}

function usernameIn(authorization: string | undefined): string {
  const encoded = /^basic\s+(\S+)\s*$/i.exec(authorization ?? '')?.[1]
  if (encoded === undefined) return ''
  const text = Buffer.from(encoded, 'base64').toString()
  // Up to the last colon: a user may have a group after its own colon, and a password is never sent.
  return text.replace(/:[^:]*$/, '')
}

/** Takes equally long for a wrong first byte and a wrong last one: the duration reveals only the length. */
export function sameText(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)]
  let difference = a.length ^ b.length
  for (let i = 0; i < b.length; i++) difference |= (a[i] ?? 0) ^ b[i]!
  return difference === 0
}
