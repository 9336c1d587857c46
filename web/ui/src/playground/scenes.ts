// The scenes are the story files that the kernel's own tests run, taken in when the page is built.

import crashedHolder from "../../../../lease/testdata/crashed-holder.txt?raw"
import deadlock from "../../../../lease/testdata/deadlock.txt?raw"
import herd from "../../../../lease/testdata/herd.txt?raw"
import twoReleaseAgents from "../../../../lease/testdata/two-release-agents.txt?raw"

export interface SceneFile {
  id: string
  title: string
  story: string
}

export const sceneFiles: SceneFile[] = [
  { id: "deploy", title: "Two agents and one deploy lock", story: twoReleaseAgents },
  { id: "crash", title: "A holder that crashed", story: crashedHolder },
  { id: "deadlock", title: "Breaking a deadlock", story: deadlock },
  { id: "herd", title: "Fifty agents and one file", story: herd },
]
