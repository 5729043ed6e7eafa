/** Build log lines about the progress of an image's layers. They never contain a credential. */
import { shortDigest } from './digest.ts'
import type { Descriptor } from './manifest.ts'

const stepPercent = 10

export class PullProgress {
  readonly #report: (line: string) => void
  readonly #layers: number
  downloadedBytes = 0
  newLayers = 0

  constructor(report: (line: string) => void, layers: number) {
    this.#report = report
    this.#layers = layers
  }

  say(line: string): void {
    this.#report(line)
  }

  layer(index: number, { digest, size }: Descriptor) {
    const name = `Layer ${index + 1}/${this.#layers} (${shortDigest(digest)})`
    let reported = 0
    return {
      reused: () => this.#report(`${name}: already here`),
      waiting: () => this.#report(`${name}: is being fetched for another build`),
      started: () => this.#report(`${name}: ${megabytes(size)}`),
      advanced: (bytes: number) => {
        const percent = size === 0 ? 100 : Math.floor((bytes * 100) / size / stepPercent) * stepPercent
        if (percent <= reported || percent >= 100) return
        reported = percent
        this.#report(`${name}: ${percent} %`)
      },
      done: (devicesLeftOut: number) => {
        this.newLayers++
        this.downloadedBytes += size
        this.#report(`${name}: unpacked`)
        if (devicesLeftOut > 0) {
          this.#report(`${name}: ${devicesLeftOut} device nodes left out; a sandbox has its own /dev`)
        }
      },
    }
  }
}

export function megabytes(bytes: number): string {
  return bytes < 1e5 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`
}
