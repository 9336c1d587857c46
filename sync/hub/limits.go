package hub

import "time"

// Limits of sockets, named once; sync/PROTOCOL.md has the same table. A zero field takes its default.
type Limits struct {
	FrameBytes       int // of one frame; 64 MiB
	EphemeralBytes   int // of one ephemeral message's data; 256 KiB, a larger one is dropped
	Documents        int // open on one socket, or waited for by it; 10,000
	AwaitedDocuments int // that do not exist and are waited for on the whole server; 100,000
	SocketsPerKey    int // 256

	JoinFrames int           // that a socket may send before it joins; 16, they are ignored
	JoinBytes  int           // of one frame before join, and of all of them; 64 KiB
	JoinTime   time.Duration // until join; 5 s

	InboundFrames    int // received on one socket and not dealt with; 1,024. At the limit its peer is read no further
	InboundBytes     int // of those; 16 MiB, and one frame more
	OutboundMessages int // that wait to be sent on one socket; 8,192. At half of it its peer's frames wait too
	OutboundBytes    int // of those; 64 MiB, and one message more
	Workers          int // documents of one socket that are dealt with at the same time; 8

	PingEvery time.Duration // 5 s; a socket that lets one ping go unanswered for as long is ended
	WriteTime time.Duration // that 64 KiB may take to be sent; 10 s
	CloseTime time.Duration // for the closing handshake; 1 s
	DrainTime time.Duration // for what a peer sent before it went; 10 s
}

func (l Limits) withDefaults() Limits {
	count := func(field *int, def int) {
		if *field == 0 {
			*field = def
		}
	}
	span := func(field *time.Duration, def time.Duration) {
		if *field == 0 {
			*field = def
		}
	}
	count(&l.FrameBytes, 64<<20)
	count(&l.EphemeralBytes, 256<<10)
	count(&l.Documents, 10_000)
	count(&l.AwaitedDocuments, 100_000)
	count(&l.SocketsPerKey, 256)
	count(&l.JoinFrames, 16)
	count(&l.JoinBytes, 64<<10)
	span(&l.JoinTime, 5*time.Second)
	count(&l.InboundFrames, 1_024)
	count(&l.InboundBytes, 16<<20)
	count(&l.OutboundMessages, 8_192)
	count(&l.OutboundBytes, 64<<20)
	count(&l.Workers, 8)
	span(&l.PingEvery, 5*time.Second)
	span(&l.WriteTime, 10*time.Second)
	span(&l.CloseTime, time.Second)
	span(&l.DrainTime, 10*time.Second)
	return l
}
