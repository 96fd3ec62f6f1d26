# client-go, in protobuf.
protobuf-client client
