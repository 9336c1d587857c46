// A scene under way. What is shown is always the world after the selected move, or, while that move has not been
// played, the world that it will meet.

import type { Engine, Move, Scene, Turn, World } from "./engine"

const emptyWorld: World = { clockMs: 0, now: "", resources: [], agents: [], waits: [] }

export class Game {
  #engine: Engine
  moves = $state.raw<Move[]>([])
  /** Of the moves from the first on that were played. */
  turns = $state.raw<Turn[]>([])
  selected = $state(0)
  failed = $state("")

  readonly move: Move = $derived(this.moves[this.selected] ?? {})
  /** What the selected move came to; undefined while it was not played. */
  readonly turn: Turn | undefined = $derived(this.turns[this.selected])
  readonly world: World = $derived((this.turns[this.selected] ?? this.turns.at(-1))?.world ?? emptyWorld)
  readonly atEnd: boolean = $derived(this.selected >= this.moves.length - 1)

  constructor(engine: Engine, scene: Scene) {
    this.#engine = engine
    this.moves = scene.moves
  }

  /** What became of a move: its answer, or the one that its long poll had later. */
  answerOf(index: number) {
    for (const turn of this.turns) {
      const late = turn.late.find((answer) => answer.move === index)
      if (late) return late
    }
    return this.turns[index]
  }

  select(index: number): void {
    this.selected = Math.max(0, Math.min(index, this.moves.length - 1))
  }

  /** Changes the selected move. It and what came after it have not been played then. */
  edit(changed: Move): void {
    this.moves = this.moves.with(this.selected, { ...this.move, ...changed })
    this.turns = this.turns.slice(0, this.selected)
  }

  /** Plays up to the selected move. */
  run(): void {
    if (this.turns.length <= this.selected) this.#play(this.selected + 1)
  }

  next(): void {
    this.run()
    if (this.atEnd) return
    this.select(this.selected + 1)
    this.run()
  }

  playAll(): void {
    this.#play(this.moves.length)
    this.select(this.moves.length - 1)
  }

  /** Lets time pass from where the scene stands. */
  pass(passMs: number): void {
    this.#insert({ passMs })
    this.run()
  }

  /** Puts another request behind where the scene stands, to be edited. */
  add(request: string): void {
    this.#insert({ request })
  }

  remove(): void {
    if (this.moves.length <= 1) return
    this.moves = this.moves.toSpliced(this.selected, 1)
    this.turns = this.turns.slice(0, this.selected)
    this.select(this.selected)
  }

  #insert(move: Move): void {
    const at = this.turn ? this.selected + 1 : this.selected
    this.moves = this.moves.toSpliced(at, 0, move)
    this.turns = this.turns.slice(0, at)
    this.select(at)
  }

  #play(count: number): void {
    try {
      this.turns = this.#engine.play(this.moves.slice(0, count))
      this.failed = ""
    } catch (error) {
      this.failed = error instanceof Error ? error.message : String(error)
    }
  }
}
