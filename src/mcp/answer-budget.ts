/**
 * Limits how much of the answers of sandboxes the tools hold in memory at a time, for each team and for all. One request
 * may call a hundred tools, and a client that does not read its answer makes the server keep it.
 */
import { AppError } from '../lib/app-error.ts'

const mebibyte = 1024 * 1024

export class AnswerBudget {
  readonly #maxOfTeam: number
  readonly #max: number
  readonly #ofTeam = new Map<string, number>()
  #buffered = 0

  constructor(maxOfTeam = 32 * mebibyte, max = 128 * mebibyte) {
    this.#maxOfTeam = maxOfTeam
    this.#max = max
  }

  /** What one request holds. */
  open(teamID: string): BufferedAnswers {
    let [own, isClosed] = [0, false]
    const add = (bytes: number) => {
      const ofTeam = (this.#ofTeam.get(teamID) ?? 0) + bytes
      if (ofTeam > 0) this.#ofTeam.set(teamID, ofTeam)
      else this.#ofTeam.delete(teamID)
      this.#buffered += bytes
      own += bytes
      return ofTeam
    }
    return {
      add: (bytes) => {
        if (isClosed) return
        const ofTeam = add(bytes)
        if (bytes <= 0 || (ofTeam <= this.#maxOfTeam && this.#buffered <= this.#max)) return
        add(-bytes)
        throw new AppError(
          'limit_reached',
          'The tools hold too much output of sandboxes at the moment. Read the answers, and call fewer tools at once.',
        )
      },
      close: () => {
        add(-own)
        isClosed = true
      },
    }
  }
}

export type BufferedAnswers = {
  /** Counts bytes that stay in memory, or, if negative, that are gone. Throws if they would be too many. */
  add(bytes: number): void
  /** Nothing is held any more. */
  close(): void
}

/** For a process that serves one client alone. */
export const unlimited: BufferedAnswers = { add() {}, close() {} }
