export type Operation = {
  /** Method and path. */
  call: string
  does: string
  query?: string
  body?: string
  /** What comes back on success, by status; '' is no body. */
  answers: Record<number, string>
  /** Fields named above that our document leaves out, each with the reason. */
  leftOut?: Record<string, string>
  /** Why it is not served at all. */
  notServed?: string
}

export const page = 'limit nextToken'
