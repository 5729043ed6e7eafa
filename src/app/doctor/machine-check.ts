import type { Config } from '../config/config.ts'
import type { Finding } from '../setup/finding.ts'

export type MachineCheck = { name: string; look(config: Config): Promise<Finding> | Finding }
