"""The rules of Raft for one member: a pure state machine, `core.RaftCore`, and this is its manual.

It has no thread, socket, file or clock: inputs come with the time, outputs are values, and all
chance is drawn from the given random source. So whole clusters run in a simulation on the code that
runs in production (`tests/support/raft_simulation.py`). Chapters and sections below are those of
Diego Ongaro's dissertation, "Consensus: Bridging Theory and Practice" (2014).

Inputs
======
==============================  ==================================================================
`step(sender, message, now_s)`  a message that the transport has authenticated (`messages`)
`tick(now_s)`                   the time, several times per heartbeat interval
`propose(payload)`              a new entry; returns its index, None on a follower
`change_members(change)`        add a learner, give a vote, remove a member
`read(ticket)`                  a current read (section 6.4)
`transfer(target)`              hand the leadership to another member (section 3.10)
`bootstrap`, `membership.admit` form a cluster of one; count as a new member after a lost disk
==============================  ==================================================================

The first byte of an entry's payload is its kind: `ports.NO_OP`, `configuration.CONFIGURATION`, or a
kind of the driver's, whose payload the rules never read.

What the driver does, in this order
===================================
1. Any number of inputs.
2. `storage.sync()`: one sync for all entries that the inputs appended. If the disk is full instead,
   `storage.take_back()` and `tail_lost()`.
3. `synced()`: the leader counts its own disk, and sends what can be sent.
4. `ready()` gives a `RaftReady`, whose contents are told once:
   a. `messages` are sent. Never before step 2: a message may confirm the entries of step 1.
   b. `reads` are answered when the state machine has applied their index.
   c. `installed`, if any, replaces the state.
   d. Entries up to `commit_index` are applied, as far as they are synced.

`count()` may be called before step 2, to apply what replies have committed without waiting for the
sync. Votes need no care: the rules store them (durable on return) before they speak of them. The
driver tells `state.has_room` (is the disk full?) and `state.log_id` (which cluster's log is it?) as
soon as it knows them, and wakes up at `notify_s`.

Parts
=====
They share `state.RaftState`: name, log, term, role, leader, time, outbox. Every other fact belongs
to one part, which alone changes it.

===========================  ======================================================================
`log.RaftLog`                entries, the commit index, the configuration in force (section 3.5)
`membership.RaftMembership`  removal, admission, peers of other clusters
`election.Election`          term, role, leader, votes, election time-out (3.4; pre-vote: 9.6)
`follower.FollowerLog`       entries from the leader (3.5)
`snapshot_transfer`          snapshots from the leader, and to a follower (chapter 5)
`leader.RaftLeader`          exists while this member leads, and holds the parts below
`progress`                   how far each other member is
`replication`                entries, heartbeats, replies, counting (3.5, 3.6)
`commit_notification`        when followers learn of commits
`read_index.ReadIndex`       rounds: current reads, and until when the leadership is certain (6.4)
`conf_change.ConfChange`     changes of one member at a time (chapter 4)
`leadership_transfer`        on request, or because the own disk stays full (3.10)
===========================  ======================================================================

`RaftCore` holds a table: for each type of message, which senders may send it and which part handles
it. It also makes the two transitions: an election that is won makes a `RaftLeader`, and stepping
down ends it.

Invariants
==========
- At most one leader in a term; a leader has every entry that was committed before its term.
- A committed entry is never cut, and entries are cut only where they conflict: a message that was
  overtaken takes nothing back.
- A reply counts in the term in which it was sent only. `Progress.match` only grows; `next` moves
  back only for a refusal that is not old.
- A leader commits by counting only entries of its own term (section 3.6.2).
- A configuration is in force when it is in the log, committed or not. The next change waits until
  the last one, and an entry of the leader's own term, is committed.
- A member that lost its disk neither votes nor stands before its log has the entry by which it was
  admitted; a member of another cluster's log is never followed.
- What was never synced was never told: `tail_lost` takes back the replies that rest on it.
"""
