/**
 * The options of a sandbox in its row. Parts that may hold credentials are sealed as a whole: whoever can
 * write to the database can neither redirect the password to another proxy nor a header to another host.
 */
import { replaceEgress } from '../../core/network-policy/network-options.ts'
import type { Sandbox, SandboxOptions } from '../../core/sandbox/row/sandbox.ts'
import type { SecretOwner, SecretVault } from '../../core/secret/vault.ts'
import { errorText } from '../../lib/app-error.ts'
import type { SandboxRow } from '../database/tables.ts'

type Owner = Pick<Sandbox, 'sandboxID' | 'teamID'>
type SealedColumns = Pick<SandboxRow, 'network_key_id' | 'network_sealed'>
type OptionColumns = SealedColumns & Pick<SandboxRow, 'options'>
type OwnedRow<Columns> = Columns & Pick<SandboxRow, 'id' | 'team_id'>

export function optionColumns(owner: Owner, options: SandboxOptions, vault: SecretVault): OptionColumns {
  const { egressProxy, rules, ...open } = options.network ?? {}
  if (!egressProxy && !rules) {
    return { options: JSON.stringify(options), network_key_id: null, network_sealed: null }
  }
  const { keyID, sealed } = vault.seal(secretOwnerOf(owner), JSON.stringify({ egressProxy, rules }))
  return {
    options: JSON.stringify({ ...options, network: open }),
    network_key_id: keyID,
    network_sealed: sealed,
  }
}

/**
 * If the sealed part cannot be opened, nothing may leave the sandbox, whatever the rest says: that is safe,
 * and a new network cures it.
 */
export function optionsOf(row: OwnedRow<OptionColumns>, vault: SecretVault): SandboxOptions {
  // Rows that older versions of Warren wrote lack these options.
  const options: SandboxOptions = { autoPauseMemory: true, secure: true, ...JSON.parse(row.options) }
  try {
    const opened = openNetwork(row, vault)
    return opened ? { ...options, network: { ...options.network, ...opened } } : options
  } catch {
    return { ...options, allowInternetAccess: false, network: replaceEgress(options.network, {}) }
  }
}

export function whyLocked(row: OwnedRow<SealedColumns>, vault: SecretVault): string | undefined {
  try {
    openNetwork(row, vault)
    return undefined
  } catch (error) {
    return errorText(error)
  }
}

function openNetwork(row: OwnedRow<SealedColumns>, vault: SecretVault): object | undefined {
  const { network_key_id: keyID, network_sealed: sealed } = row
  if (sealed === null) return undefined
  const owner = secretOwnerOf({ sandboxID: row.id, teamID: row.team_id })
  return JSON.parse(vault.open(owner, { keyID: keyID ?? 'without an ID', sealed }))
}

const secretOwnerOf = ({ teamID, sandboxID }: Owner): SecretOwner => ({
  identity: ['warren sandbox network', teamID, sandboxID],
  name: `The network of the sandbox ${sandboxID}`,
  remedy: 'give it a new one by PUT /sandboxes/{id}/network',
})
