import type { Config } from '../config.ts'
import type { Finding } from './finding.ts'

export type MachineCheck = { name: string; look(config: Config): Promise<Finding> | Finding }
