"""Where are free docks, and where should the van go next?"""
