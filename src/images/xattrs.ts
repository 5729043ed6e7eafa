/**
 * Selects the extended attributes of an archive. `trusted.` ones control overlayfs and are never taken from
 * outside.
 */

/** On a folder, hides everything that the layers below have in that folder. */
export const opaqueXattr = { name: 'trusted.overlay.opaque', value: Buffer.from('y') }

const capability = 'security.capability'
const revisionMask = 0xff000000
const revision2 = 0x02000000
const revision3 = 0x03000000
const sizeOfRevision2 = 20

export function storedXattrs(
  given: readonly [string, Buffer][],
  ownerShift: number,
): [name: string, value: Buffer][] {
  return given.flatMap(([name, value]): [string, Buffer][] => {
    if (name === capability) {
      const shifted = shiftedCapability(value, ownerShift)
      return shifted ? [[name, shifted]] : []
    }
    const isPlain = name.startsWith('user.') && !name.startsWith('user.overlay.') && !name.includes('\0')
    return isPlain ? [[name, value]] : []
  })
}

/**
 * The kernel honours a file's capabilities only in the user namespace whose root they name; without a name
 * that is the machine's own. So they name the root of sandboxes.
 */
function shiftedCapability(value: Buffer, ownerShift: number): Buffer | undefined {
  if (value.length < sizeOfRevision2) return undefined
  const head = value.readUInt32LE()
  const revision = (head & revisionMask) >>> 0
  if (revision !== revision2 && revision !== revision3) return undefined
  const stored = Buffer.alloc(ownerShift === 0 ? sizeOfRevision2 : sizeOfRevision2 + 4)
  value.copy(stored, 0, 0, sizeOfRevision2)
  stored.writeUInt32LE(((head & ~revisionMask) | (ownerShift === 0 ? revision2 : revision3)) >>> 0)
  if (ownerShift > 0) stored.writeUInt32LE(ownerShift, sizeOfRevision2)
  return stored
}
