"""`python -m geode`: the same as the `geode` command."""

from geode.cli.main import main

raise SystemExit(main())
