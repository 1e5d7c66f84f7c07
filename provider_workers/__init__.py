"""The providers that come with the product: how records are kept, ranked, derived and queried."""

import os

# gRPC would start its own threads again in every child, between fork and exec, where they crash it now and then. No
# child of ours speaks gRPC before it has become another program. It has to be said before gRPC is first imported.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
