// Package forwarder shows two ways to let a message leave exactly when the work
// that it tells of was committed: what the guard has built in, stored outputs
// ([Store]), and beside it watermill-sql's publisher in the claim's transaction
// with Watermill's forwarder behind it ([Forward], [Daemon]). The tests run both
// on PostgreSQL and MariaDB against duplicates, handlers that fail after they
// have published, a broker that fails, and a process that dies between commit
// and sending; neither loses a message or tells of what was rolled back.
//
//	                 stored outputs               forwarder
//	round trips of   PostgreSQL 3, MariaDB 4:     4 and 6: one more for each Publish,
//	an order with    outputs travel with COMMIT   two with a driver that prepares;
//	one message                                   the daemon's own come on top
//	out after        the commit, at once: 6 ms    the next poll: 112 ms of a 50 ms
//	(median seen)    and 19 ms                    poll on PostgreSQL, 60 ms on
//	                                              MariaDB; the default is 1 s
//	who waits for    the attempt: it is acked     nobody: it is acked after its
//	a slow broker    when its outputs are out,    commit, whatever that broker does
//	                 or after three tries
//	who waits else   nobody                       PostgreSQL: the daemon, for the
//	                                              oldest writing transaction of the
//	                                              whole server. MariaDB: handlers,
//	                                              for the daemon to hand over what
//	                                              it has read
//	order            as one attempt produced      of the commits, one after another
//	                 them, until one fails
//	what sends       duplicates, three times in   the daemon, for ever; what cannot
//	again            all, then a relay; what      be sent holds up all behind it
//	                 fails too often is set
//	                 aside
//	needs            nothing                      tables made before ([Migrate]), a
//	                                              daemon that somebody runs and
//	                                              watches, somebody who deletes old
//	                                              rows; PostgreSQL or MySQL
//	on the wire      at least once, one UUID      at least once, one UUID
//
// The times were taken on two cores that did other work as well; they show the
// kind of difference, not its size.
//
// Take stored outputs unless a reason speaks for the forwarder: consuming must
// not be slowed while the broker that is published to is away; what is published
// must keep the order of the commits; or a forwarder is there already. Where the
// order matters run one daemon, and see that a message that cannot be sent is
// noticed.
package forwarder
