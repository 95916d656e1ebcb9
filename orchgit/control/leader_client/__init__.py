"""How scheduler workers reach the leader: one protocol, over a pipe, over gRPC or by a plain call.

worker process --pipe--> its server's LeaderRouter --> Control, where this server leads
                                                   --> RemoteLeader --gRPC--> the leader
"""
