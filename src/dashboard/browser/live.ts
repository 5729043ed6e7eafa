/** Data that stays fresh while somebody looks at it. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { systemClock } from '../../lib/clock.ts'
import { forget } from './log-in.ts'
import { brokenOff, RestFailure } from './rest.ts'

export type Live<T> = {
  data: T | undefined
  error: unknown
  /** Loads now; resolves when that is done. */
  reload(): Promise<void>
  /** Shows this until the next answer. */
  put(data: T): void
}

/** The last values, so that a view that is opened again shows them at once. */
const seen = new Map<string, unknown>()
const maxSeen = 50

export function forgetAll(): void {
  seen.clear()
}

export const now = (): number => systemClock.now()

/** While answers are slow, they are asked for less often. */
const restFactor = 4

/**
 * Loads when `key` changes and every `everyMs` (0: once) while the page is visible. An empty `key` loads nothing. `load` may
 * show what it has so far with its second argument.
 */
export function useLive<T>(
  key: string,
  load: (signal: AbortSignal, show: (data: T) => void) => Promise<T>,
  everyMs = 0,
): Live<T> {
  const [, draw] = useState(0)
  const state = useRef<{ key: string; data: T | undefined; error: unknown }>({ ...none })
  const loading = useRef(load)
  loading.current = load
  const again = useRef<() => Promise<void>>(async () => {})
  if (state.current.key !== key) {
    state.current = { key, data: seen.get(key) as T | undefined, error: undefined }
  }
  const change = (changes: { data?: T; error: unknown }) => {
    state.current = { ...state.current, ...changes }
    if ('data' in changes) remember(key, changes.data)
    draw((count) => count + 1)
  }
  useEffect(() => {
    if (key === '') return
    const stopped = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    let isFirst = state.current.data === undefined
    const round = async () => {
      clearTimeout(timer)
      const began = performance.now()
      try {
        const show = (data: T) => isFirst && !stopped.signal.aborted && change({ data, error: undefined })
        const data = await loading.current(stopped.signal, show)
        if (!stopped.signal.aborted) change({ data, error: undefined })
      } catch (error) {
        if (stopped.signal.aborted) return
        if (error instanceof RestFailure && error.status === 401) forget()
        change({ error })
      }
      isFirst = false
      if (everyMs === 0 || stopped.signal.aborted) return
      clearTimeout(timer)
      timer = setTimeout(whenVisible, Math.max(everyMs, restFactor * (performance.now() - began)))
    }
    const whenVisible = () => {
      if (!document.hidden) void round()
    }
    again.current = round
    void round()
    document.addEventListener('visibilitychange', whenVisible)
    const stopWatching = brokenOff.subscribe(() => void round())
    return () => {
      stopWatching()
      stopped.abort()
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', whenVisible)
    }
  }, [key, everyMs])
  const { data, error } = state.current
  return {
    data,
    error,
    reload: () => again.current(),
    put: (next) => change({ data: next, error: undefined }),
  }
}

const none = { key: '', data: undefined, error: undefined }

function remember(key: string, data: unknown): void {
  seen.delete(key)
  seen.set(key, data)
  if (seen.size > maxSeen) seen.delete(seen.keys().next().value!)
}

/** The time, read anew every `everyMs`. */
export function useNow(everyMs = 1000): number {
  const [time, setTime] = useState(now)
  useEffect(() => {
    const timer = setInterval(() => setTime(now()), everyMs)
    return () => clearInterval(timer)
  }, [everyMs])
  return time
}
