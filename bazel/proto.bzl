"""The macro that generates C++ from .proto files: messages, and services over gRPC."""

def callboard_grpc_proto(name, messages = [], services = [], deps = [], visibility = None):
    """Generates and compiles C++ for .proto files whose imports are relative to this package.

    The package's folder is the root of imports: //proto:callboard/v1/queue.proto is included as
    "callboard/v1/queue.pb.h".

    Args:
      name: of the C++ library. With services, it holds their gRPC code. <name>_messages holds all
        messages, for code that needs no gRPC; without services it is the same library.
      messages: .proto files without services.
      services: .proto files with services.
      deps: other callboard_grpc_proto targets whose files are imported.
      visibility: of the library and its sources.
    """
    srcs = messages + services
    stems = [src[:-len(".proto")] for src in srcs]
    service_stems = [src[:-len(".proto")] for src in services]
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
        outs = [stem + end for stem in stems for end in [".pb.h", ".pb.cc"]] +
               [stem + end for stem in service_stems for end in [".grpc.pb.h", ".grpc.pb.cc"]],
        cmd = " && ".join(commands),
        message = "Generating C++ from protos of",
    )
    messages_name = name + "_messages" if services else name
    message_deps = [dep + "_messages" for dep in deps] + ["//bazel/system:protobuf"]
    _generated_library(messages_name, stems, ".pb", message_deps, visibility)
    if services:
        service_deps = [":" + messages_name, "//bazel/system:grpc"]
        _generated_library(name, service_stems, ".grpc.pb", service_deps, visibility)
    else:
        native.alias(name = name + "_messages", actual = name, visibility = visibility)

def _generated_library(name, stems, end, deps, visibility):
    native.cc_library(
        name = name,
        srcs = [stem + end + ".cc" for stem in stems],
        hdrs = [stem + end + ".h" for stem in stems],
        # These become system headers, so that generated code is compiled without our warnings.
        includes = ["."],
        # Reflection finds descriptors through static initialisers only.
        alwayslink = True,
        linkstatic = True,
        visibility = visibility,
        deps = deps,
    )

def _locations(srcs):
    return " ".join(["$(location %s)" % src for src in srcs])
