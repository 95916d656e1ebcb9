"""Moving the data of an allocation that another node ran: `ephemeral_disk { migrate = true }`.

`snapshot.py` writes an allocation's data as a stream, `restore.py` reads such a stream, and
`remote_data.py` asks the servers where the data is and fetches it from that node's agent.
"""
