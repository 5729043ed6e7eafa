/**
 * The disk of a sandbox: a sparse ext4 image on an auto-detaching loop device, so that the image's size is
 * the limit and a full disk reports ENOSPC. It holds `upper` and `work` of the sandbox's overlay and is
 * mounted only in its slot's mount namespace: mount and loop device end with that.
 */
import { existsSync } from 'node:fs'
import { chown, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { JoinedWork } from '../../../lib/keyed-lock.ts'
import { runCommand } from '../../../lib/run-command.ts'
import type { NamespaceThread } from '../namespace/namespace-thread.ts'
import { unmount } from '../namespace/unmount.ts'
import type { Layout } from '../record/layout.ts'

export class Disks {
  readonly #layout: Layout
  readonly #uidBase: number
  readonly #namespaces: NamespaceThread
  readonly #blanks = new JoinedWork<string>()

  constructor(layout: Layout, uidBase: number, namespaces: NamespaceThread) {
    this.#layout = layout
    this.#uidBase = uidBase
    this.#namespaces = namespaces
  }

  /**
   * The namespace sees the mounts of this moment and no later ones: the slot's network must exist already.
   */
  async makeForSlot(slot: number, sizeMB: number): Promise<void> {
    const blank = await this.#blanks.run(String(sizeMB), () => this.#makeBlank(sizeMB))
    await this.#namespaces.do({
      makeSlotDisk: {
        namespace: this.#layout.mountNamespace(slot),
        blank,
        image: this.#layout.slotDisk(slot),
        target: this.#layout.diskMount,
      },
    })
  }

  async remakeForSlot(slot: number, sizeMB: number): Promise<void> {
    await unmount(this.#layout.mountNamespace(slot))
    await rm(this.#layout.slotDisk(slot), { force: true })
    await this.makeForSlot(slot, sizeMB)
  }

  /** No journal: a sandbox that was cut off is lost anyway. Inode tables are left for the first use. */
  async #makeBlank(sizeMB: number): Promise<string> {
    const blank = this.#layout.blankDisk(sizeMB)
    if (existsSync(blank)) return blank
    const folder = await mkdtemp(join(this.#layout.disks, 'making-'))
    try {
      const content = join(folder, 'content')
      for (const each of [content, join(content, 'upper'), join(content, 'work')]) {
        await mkdir(each, { mode: 0o755 })
        await chown(each, this.#uidBase, this.#uidBase)
      }
      const image = join(folder, 'image')
      const features = ['-O', '^has_journal,^resize_inode', '-m', '0', '-E', 'lazy_itable_init=1,nodiscard']
      await runCommand('mkfs.ext4', ['-q', '-F', ...features, '-d', content, image, `${sizeMB}M`])
      await rename(image, blank)
      return blank
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
}
