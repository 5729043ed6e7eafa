/**
 * How peers recognize each other: the first node makes an authority and shares it, sealed, through the
 * database; each node issues itself a certificate with its ID as the name.
 */
import { createHash } from 'node:crypto'
import type { NodeStore } from '../core/cluster/node-store.ts'
import type { SealedValue, SecretOwner, SecretVault } from '../core/secret/vault.ts'
import { AppError } from '../lib/app-error.ts'
import { type Authority, type Certificate, issueCertificate, makeAuthority } from '../lib/certificates.ts'

const daysOfAuthority = 7300
const daysOfCertificate = 3650

const authorityOwner: SecretOwner = {
  identity: ['peer authority'],
  name: 'The key of the authority for peers',
  remedy: "delete the row 'peer authority' of shared_values and restart all nodes",
}

export type PeerIdentity = Certificate & { authority: string }

type SharedSecrets = { seed: string; adminToken: string }

/** The name in the certificate of a node. */
export const peerName = (nodeID: string): string => `${nodeID}.node.warren`

/** `names` is what Node tells of a certificate's names. Undefined if none of them is the name of a node. */
export const nodeOfPeerName = (names = ''): string | undefined => /DNS:(\w+)\.node\.warren/.exec(names)?.[1]

/**
 * Rejects a node with secrets other than the cluster's: its tokens and sealed values would be invalid there.
 */
export async function requireSharedSecrets(
  nodes: Pick<NodeStore, 'share'>,
  secrets: SharedSecrets,
  vault: Pick<SecretVault, 'keyID'>,
): Promise<void> {
  const own = createHash('sha256')
    .update(`fingerprint of secrets ${secrets.seed} ${secrets.adminToken}`)
    .digest('hex')
  if ((await nodes.share('fingerprint of secrets', own)) !== own) throw otherSecrets('secrets.json')
  if ((await nodes.share('id of the secret key', vault.keyID)) !== vault.keyID)
    throw otherSecrets('secret-key.json')
}

const otherSecrets = (file: string) =>
  new AppError(
    'conflict',
    `This node cannot join the cluster: its ${file} is not the one of the other nodes. Copy secrets.json and ` +
      'secret-key.json from the data folder of a node of the cluster (or point WARREN_SECRETS_DIR at a folder with them) ' +
      'and start again.',
  )

export async function openPeerIdentity(
  nodes: Pick<NodeStore, 'share'>,
  vault: SecretVault,
  nodeID: string,
): Promise<PeerIdentity> {
  const sealed = JSON.stringify(vault.seal(authorityOwner, JSON.stringify(freshAuthority())))
  const shared = JSON.parse(await nodes.share('peer authority', sealed)) as SealedValue
  const authority = JSON.parse(vault.open(authorityOwner, shared)) as Authority
  const leaf = { names: [peerName(nodeID)], days: daysOfCertificate, isClient: true }
  return { ...issueCertificate(authority, leaf), authority: authority.certificate }
}

const freshAuthority = (): Authority => makeAuthority('Warren peers', daysOfAuthority)
