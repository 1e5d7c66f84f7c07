"""The gateway: UHP over HTTP in front, gRPC behind. It decides no access and keeps nothing."""
