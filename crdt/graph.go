package crdt

// Graph is the changes of one document by their dependencies. Not safe for concurrent use.
type Graph struct{}

// NewGraph is the graph of the empty document.
func NewGraph() *Graph { panic("stub") }

// Add puts in changes whose dependencies are all there or stand earlier in the slice.
func (g *Graph) Add(changes ...Change) { panic("stub") }

// Heads are the changes that no other depends on, sorted.
func (g *Graph) Heads() []Hash { panic("stub") }

// Has says whether the change is in the graph.
func (g *Graph) Has(h Hash) bool { panic("stub") }

// Len is the number of changes.
func (g *Graph) Len() int { panic("stub") }

// Sort splits changes into those that can be added now, in an order in which each stands behind its
// dependencies, and those that wait for others. Known ones and repetitions are dropped. A change that
// reuses an actor's sequence number with another hash is in neither: it is in refused.
func (g *Graph) Sort(changes []Change) (ready, orphans, refused []Change) { panic("stub") }

// Objects resolves which properties and objects of a document its changes touch. Not safe for concurrent use.
type Objects struct{}

// NewObjects is the index of the empty document.
func NewObjects() *Objects { panic("stub") }

// Add takes in a change and returns the paths that it touches, without repetitions, in order of first
// touch: for an operation on a Text or list, the path of that object; on a map, the path of the property.
func (o *Objects) Add(c Change) []Path { panic("stub") }
