"""Runs the cases of a plan."""


def run(case):
    """One case, in a process of its own that is stopped when it takes too long."""
    child = os.fork()
    if child == 0:
        global O, HERE
        PLAN.update(case)
        O, HERE = case["outside"], os.path.join(PLAN["workspace"], case["name"])
        try:
            os.chdir(HERE)
            PLAN["here"] = os.open(".", os.O_RDONLY)
            attempt(case)
            answer = "done"
        except BaseException as error:
            answer = repr(error)
        note("answer", answer)
        os._exit(0)
    stop = time.monotonic() + BOUND
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > stop:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.001)


def attempt(case):
    if "script" not in case:
        return globals()[case["name"]]()
    environment = {"O": O, "W": PLAN["workspace"], "PORT": str(PLAN.get("tcp", [0, 0])[1]), "PATH": os.environ["PATH"], "HOME": "."}
    done = subprocess.run(["bash", "-c", case["script"]], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise OSError(done.returncode, done.stdout.decode(errors="replace"))


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        PLAN = json.load(file)
    PLAN["parent"] = os.getppid()
    # One case sends it to its whole group.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    for case in PLAN["cases"]:
        run(case)
