import type { Tools } from './process/launch.ts'

/** Each argument is one tool, `name=word word word`. A tool not named is looked for on the search path. */
export function startupTools(args: readonly string[]): Tools {
  const given = new Map(
    args.map((arg) => {
      const at = arg.indexOf('=')
      return [arg.slice(0, at), arg.slice(at + 1).split(' ')] as const
    }),
  )
  const words = (name: string) => given.get(name) ?? [name]
  return { setpriv: words('setpriv'), env: words('env'), mkfifo: words('mkfifo') }
}
