"""The one rule that turns .proto files into C++: messages, and services over gRPC."""

def callboard_grpc_proto(name, messages = [], services = [], deps = [], visibility = None):
    """Generates and compiles C++ for .proto files whose imports are relative to this package.

    The package's folder is the root of imports: //proto:callboard/v1/queue.proto is included as
    "callboard/v1/queue.pb.h".

    Args:
      name: of the C++ library.
      messages: .proto files without services; alone, they need no gRPC.
      services: .proto files with services, generated for gRPC too.
      deps: other callboard_grpc_proto targets whose files are imported.
      visibility: of the library and its sources.
    """
    srcs = messages + services
    stems = [src[:-len(".proto")] for src in srcs]
    service_stems = [src[:-len(".proto")] for src in services]
    headers = [stem + ".pb.h" for stem in stems] + [stem + ".grpc.pb.h" for stem in service_stems]
    sources = [stem + ".pb.cc" for stem in stems] + [stem + ".grpc.pb.cc" for stem in service_stems]
    native.filegroup(
        name = name + "_srcs",
        srcs = srcs + [dep + "_srcs" for dep in deps],
        visibility = visibility,
    )
    roots = [native.package_name()] + (["proto"] if deps else [])
    protoc = "protoc --fatal_warnings " + " ".join(["-I" + root for root in roots])
    commands = ["%s --cpp_out=$(RULEDIR) %s" % (protoc, _locations(srcs))]
    if services:
        commands.append(
            "%s --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin) --grpc_out=$(RULEDIR) %s" %
            (protoc, _locations(services)),
        )
    native.genrule(
        name = name + "_codegen",
        srcs = srcs + [dep + "_srcs" for dep in deps],
        outs = headers + sources,
        cmd = " && ".join(commands),
        message = "Generating C++ from protos of",
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        # As system headers: generated code is not held to our warnings.
        includes = ["."],
        # Reflection finds descriptors through static initialisers only.
        alwayslink = True,
        linkstatic = True,
        visibility = visibility,
        deps = deps + ["//bazel/system:grpc" if services else "//bazel/system:protobuf"],
    )

def _locations(srcs):
    return " ".join(["$(location %s)" % src for src in srcs])
