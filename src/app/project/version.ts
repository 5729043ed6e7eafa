import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectFolder } from './project-folder.ts'

const packageFile = join(projectFolder, 'package.json')

export const version: string = JSON.parse(readFileSync(packageFile, 'utf8')).version
