/**
 * Users and groups as the sandbox's own /etc/passwd and /etc/group tell them. Read by ourselves: an image may
 * have no getent, and our libc is not the image's.
 */
import { readFileSync, statSync } from 'node:fs'

export type Account = {
  name: string
  uid: number
  gid: number
  home: string
  /** Supplementary groups, without the primary one. */
  groups: number[]
}

type Table = { stamp: string; rows: string[][] }

export class Accounts {
  #folder: string
  #tables = new Map<string, Table>()

  constructor(folder = '/etc') {
    this.#folder = folder
  }

  /** Finds by name; a number that names nobody is taken as a bare user id, as images do in USER. */
  find(name: string): Account | undefined {
    const row = this.#rows('passwd').find((fields) => fields[0] === name)
    if (row) return this.#account(row)
    if (name === 'root') return { name, uid: 0, gid: 0, home: '/root', groups: [] }
    const bare = /^(\d{1,9})(?::(\d{1,9}))?$/.exec(name)
    if (!bare) return undefined
    const uid = Number(bare[1])
    const known = this.#rows('passwd').find((fields) => Number(fields[2]) === uid)
    const account = known ? this.#account(known) : { name: String(uid), uid, gid: uid, home: '/', groups: [] }
    return bare[2] === undefined ? account : { ...account, gid: Number(bare[2]) }
  }

  userName(uid: number): string {
    const row = this.#rows('passwd').find((fields) => Number(fields[2]) === uid)
    return row?.[0] ?? (uid === 0 ? 'root' : String(uid))
  }

  groupName(gid: number): string {
    const row = this.#rows('group').find((fields) => Number(fields[2]) === gid)
    return row?.[0] ?? (gid === 0 ? 'root' : String(gid))
  }

  #account(row: string[]): Account {
    const name = row[0]!
    const gid = Number(row[3])
    const groups = this.#rows('group')
      .filter((fields) => fields[3]?.split(',').includes(name))
      .map((fields) => Number(fields[2]))
      .filter((group) => group !== gid)
    return { name, uid: Number(row[2]), gid, home: row[5] || '/', groups: [...new Set(groups)] }
  }

  #rows(file: 'passwd' | 'group'): string[][] {
    const path = `${this.#folder}/${file}`
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
    if (!stats) return []
    const stamp = `${stats.ino} ${stats.size} ${stats.mtimeNs}`
    const known = this.#tables.get(file)
    if (known?.stamp === stamp) return known.rows
    const fieldCount = file === 'passwd' ? 6 : 4
    const rows = readFileSync(path, 'utf8')
      .split('\n')
      .map((line) => line.split(':'))
      .filter((fields) => fields.length >= fieldCount && fields[0] !== '' && /^\d+$/.test(fields[2]!))
    this.#tables.set(file, { stamp, rows })
    return rows
  }
}
