/** gVisor's platforms: the ways in which it intercepts system calls. */
import { existsSync } from 'node:fs'
import type { AgentProgram } from '../../../core/ports/agent-program.ts'

/** In the order of their benefit for a sandbox: the first wins, unless another costs much less. */
export const platforms = ['systrap', 'kvm', 'ptrace'] as const
export type SyscallPlatform = (typeof platforms)[number]

export const hasKvm = (): boolean => existsSync('/dev/kvm')

/** The platforms that this machine may support. */
export const candidatePlatforms = (): SyscallPlatform[] =>
  platforms.filter((platform) => platform !== 'kvm' || hasKvm())

/** The work by which platforms are compared: starting the agent, and a program inside that makes system calls and processes. */
export type PlatformTrial = { agent: AgentProgram; sampleWork: readonly string[] }
